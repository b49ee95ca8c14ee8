"""The public names, and where each of them lives. This list is the only one: they are loaded on first use."""

from .base.checks import Label as Label
from .base.errors import (
    SpentReceipt as SpentReceipt,
    Unavailable as Unavailable,
    UnknownReceipt as UnknownReceipt,
    UserError as UserError,
)
from .base.version import __version__ as __version__
from .data.adversarial import (
    FreshFeatures as FreshFeatures,
    FreshThenSegments as FreshThenSegments,
    Segments as Segments,
)
from .data.arrays import ArrayStream as ArrayStream
from .data.normalization import Columns as Columns
from .data.open import open_stream as open_stream
from .data.records.encoder import Encoder as Encoder
from .data.stream import Chunk as Chunk, Stream as Stream
from .data.svmlight import SvmlightFile as SvmlightFile
from .data.synthetic import Synthetic as Synthetic, UnitVectors as UnitVectors
from .graphs.graph import FeedbackGraph as FeedbackGraph, GraphArrays as GraphArrays, Plan as Plan
from .kernel.compiling import interpreted as interpreted
from .kernel.pieces import Piece as Piece, compiled as compiled, helper as helper
from .kernel.state import Field as Field, Scratch as Scratch
from .learners.bandits import (
    AdaptiveRate as AdaptiveRate,
    Banditron as Banditron,
    BanditronIW as BanditronIW,
    FixedRate as FixedRate,
    Newtron as Newtron,
    PNewtron as PNewtron,
    Soba as Soba,
    SobaDiag as SobaDiag,
)
from .learners.decoded import DecodedLogistic as DecodedLogistic
from .learners.estimators import (
    Estimator as Estimator,
    OneAgainstAll as OneAgainstAll,
    PartialLikelihood as PartialLikelihood,
    SquareCBG as SquareCBG,
)
from .learners.exp3 import Exp3G as Exp3G
from .learners.exploration.decoding import Decoding as Decoding
from .learners.exploration.optimised import Optimised as Optimised
from .learners.exploration.rules import (
    BurnIn as BurnIn,
    EpsilonGreedy as EpsilonGreedy,
    Exploration as Exploration,
    Greedy as Greedy,
    InverseGap as InverseGap,
    Paper as Paper,
    TopUp as TopUp,
)
from .learners.exploration.squarecb import SquareCB as SquareCB
from .learners.gappletron import Gappletron as Gappletron
from .learners.gaptron import (
    Gaptron as Gaptron,
    GaptronHinge as GaptronHinge,
    GaptronLogistic as GaptronLogistic,
    GaptronMix as GaptronMix,
)
from .learners.guard import Guarded as Guarded
from .learners.learner import Decision as Decision, Learner as Learner, Problem as Problem, Round as Round
from .learners.losses import (
    Hinge as Hinge,
    LogisticBase2 as LogisticBase2,
    LogisticBaseK as LogisticBaseK,
    Loss as Loss,
    SmoothHinge as SmoothHinge,
)
from .learners.optimizers import (
    AdaGrad as AdaGrad,
    AdaptiveOGD as AdaptiveOGD,
    ConfidenceWeighted as ConfidenceWeighted,
    FixedOGD as FixedOGD,
    Optimizer as Optimizer,
    ProjectedOGD as ProjectedOGD,
    ScaleFreeFTRL as ScaleFreeFTRL,
)
from .learners.perceptron import (
    Arow as Arow,
    LabelEfficientPerceptron as LabelEfficientPerceptron,
    PassiveAggressive as PassiveAggressive,
    Perceptron as Perceptron,
    SecondOrderPerceptron as SecondOrderPerceptron,
    SecondOrderPerceptronDiag as SecondOrderPerceptronDiag,
)
from .learners.registry import named as named, names as names
from .learners.run_bound import Restart as Restart, RunBound as RunBound
from .learners.score_parts import ScoreParts as ScoreParts
from .learners.scorers import GivenScores as GivenScores, Scorer as Scorer, Tracking as Tracking
from .online.decisions import read_decisions as read_decisions
from .online.explanation import Contribution as Contribution, Explanation as Explanation
from .online.feature_weights import FeatureWeight as FeatureWeight, FeatureWeights as FeatureWeights
from .online.model import Online as Online
from .online.off_policy import (
    Evaluation as Evaluation,
    OffPolicyEstimate as OffPolicyEstimate,
    evaluate_off_policy as evaluate_off_policy,
)
from .online.receipts import UNSEEN as UNSEEN, Receipt as Receipt
from .online.river import RiverAct as RiverAct, RiverClassifier as RiverClassifier
from .online.sklearn import Acts as Acts, GappletronClassifier as GappletronClassifier
from .paper.adversary import Probe as Probe, quietest_segment as quietest_segment
from .paper.comparator import Comparator as Comparator, best_comparator as best_comparator
from .paper.reproduce import Reproduction as Reproduction, reproduce as reproduce
from .paper.results import Outcome as Outcome, Result as Result, Task as Task
from .paper.store import read_results as read_results
from .paper.theory import Bound as Bound, bounds as bounds
from .paper.tuning import tuned as tuned
from .play.history import Confusion as Confusion, Curve as Curve, Histories as Histories, History as History
from .play.limits import Budget as Budget, Limits as Limits, LimitsReport as LimitsReport
from .play.monitor import (
    Alarm as Alarm,
    ClassRates as ClassRates,
    Estimate as Estimate,
    Monitor as Monitor,
    Rates as Rates,
    Report as Report,
    WindowRates as WindowRates,
)
from .play.monitor_state import Watch as Watch
from .play.player import Player as Player
from .play.runs import Runs as Runs, play as play
from .play.turns import Turn as Turn
