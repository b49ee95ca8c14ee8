"""The options of a model: each is one field here, and every interface reads it from here.

:class:`gappletron.Player`, :class:`gappletron.Online`, :func:`gappletron.play`, the command line, the service and saved
models take names, defaults, bounds and help texts from these two classes. To add an option, add a field; the command
line takes those that its commands name.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gappletron.base.checks import number, whole
from gappletron.base.errors import UserError
from gappletron.base.text import unknown

if TYPE_CHECKING:  # they load Numba, and the help of the command line reads this module
    from gappletron.data.normalization import Normalization
    from gappletron.play.limits import Budget, Limits
    from gappletron.play.monitor_state import Watching

C = TypeVar("C", bound="PlayerOptions")
T = TypeVar("T")


def option(default: Any, help: str, check: Callable[[Any, str], Any], *, may_change: bool = False) -> Any:
    """Declare an option: its default, one line of help, and what checks and normalises a value.

    :param may_change: a stored model may be opened again with another value.
    """
    return dataclasses.field(default=default, metadata={"help": help, "check": check, "may_change": may_change})


def _check_normalize(value: Any, name: str) -> Any:
    from gappletron.data.normalization import NORMALIZATIONS, Normalization

    if not isinstance(value, Normalization) and value not in (None, "auto", *NORMALIZATIONS):
        raise unknown(value, "normalization", ["auto", *NORMALIZATIONS])
    return value


def _check_bias(value: Any, name: str) -> Any:
    if value != "auto" and type(value) is not bool:
        raise UserError(f"{name} must be True, False or 'auto', not {value!r}")
    return value


def _check_limit(value: Any, name: str) -> Any:
    from gappletron.play.limits import Limits

    return getattr(Limits(**{name: value}), name)


_check_count = functools.partial(whole, least=1)


def _check_if_given(check: Callable[..., Any], **limits: Any) -> Callable[[Any, str], Any]:
    return lambda value, name: None if value is None else check(value, name, **limits)


def _check_monitor(value: Any, name: str) -> Watching:
    from gappletron.play.monitor_state import find_watch

    return find_watch(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayerOptions:
    """The options of a learner that plays.

    >>> PlayerOptions(min_propensity=0.05).limits
    Limits(min_propensity=0.05, budget=None)
    >>> PlayerOptions(min_propensity=2)
    Traceback (most recent call last):
        ...
    gappletron.UserError: min_propensity must be at most 1, not 2
    """

    seed: int = option(0, "The seed of the learner's random draws.", whole)
    normalize: Normalization | str | None = option(
        "auto",
        "How rows are scaled by what was seen so far: columns, unit, log1p-unit (for counts), none (as they are), or "
        "auto: columns for the default learner and for records.",
        _check_normalize,
    )
    bias: bool | str = option(
        "auto",
        "Whether rows get one more feature that is always 1; auto: for the default learner and for records. Its "
        "weights are the first row of `weights`.",
        _check_bias,
    )
    monitor: Watching | bool = option(
        False, "True, or a Watch with its window, to estimate the error from the labels that are seen.", _check_monitor
    )
    min_propensity: float = option(
        0.0, "Every label is revealed with at least this probability, at most 1 / rho.", _check_limit, may_change=True
    )
    budget: Budget | None = option(None, "What exploration may cost in a window.", _check_limit, may_change=True)
    memory: int | None = option(
        None,
        "After this many rounds that reveal something the learner forgets how certain it is. By default it restarts "
        "only where it notices a change.",
        _check_if_given(whole, least=1),
    )
    max_features: int = option(
        2**20,
        "How many features may have weights, for records and growing vectors; features that come after them are left "
        "out of their rows.",
        _check_count,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = field.metadata["check"](getattr(self, field.name), field.name)
            object.__setattr__(self, field.name, value)

    @classmethod
    def parse(cls: type[C], given: dict[str, Any]) -> C:
        """Return the options of keyword arguments; an unknown name is a UserError.

        >>> Options.parse({"pendin": 3})
        Traceback (most recent call last):
            ...
        gappletron.UserError: there is no option 'pendin', did you mean 'pending'? Choose one of 'seed', 'normalize', \
'bias', 'monitor', 'min_propensity', 'budget', 'memory', 'max_features', 'pending', 'pending_bytes', 'pending_age'
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in names:
                raise unknown(name, "option", names)
        return cls(**given)

    @property
    def limits(self) -> Limits:
        """The limits on the exploration."""
        from gappletron.play.limits import Limits

        return Limits(self.min_propensity, self.budget)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(PlayerOptions):
    """The options of a model that is used one round at a time.

    >>> Options(pending=5).pending, Options.help("pending_age")
    (5, 'For how many seconds a receipt may wait; then it expires. By default there is no such limit.')
    """

    pending: int = option(
        10_000, "How many receipts may wait for feedback; beyond that the oldest expire.", _check_count, may_change=True
    )
    pending_bytes: int = option(
        2**28,
        "How much memory the rows and probabilities of waiting receipts may take; beyond that the oldest expire.",
        _check_count,
        may_change=True,
    )
    pending_age: float | None = option(
        None,
        "For how many seconds a receipt may wait; then it expires. By default there is no such limit.",
        _check_if_given(number, above=0.0),
        may_change=True,
    )

    @classmethod
    def help(cls, name: str) -> str:
        """Return the line of help of an option."""
        return next(field.metadata["help"] for field in dataclasses.fields(cls) if field.name == name)

    @classmethod
    def may_change(cls) -> list[str]:
        """Return the names of the options that may change when a stored model is opened again."""
        return [field.name for field in dataclasses.fields(cls) if field.metadata["may_change"]]


def takes_options(options: type[PlayerOptions]) -> Callable[[T], T]:
    """Decorate a function whose ``**options`` are the fields of a class: its signature and docstring list them."""

    def decorate(function: T) -> T:
        signature = inspect.signature(function)  # type: ignore[arg-type]
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        fields = dataclasses.fields(options)
        listed = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in fields
            if field.name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
        return function

    return decorate
