"""Sentences of the library in the words of the command line: options in place of arguments and methods of Python."""

import re

# What is said in Python, and on the command line.
WORDS = {
    r" \((?:format|classes|columns|label)=[^)]*\)": "",
    r"\(normalize='unit', --normalize unit\)": "(--normalize unit)",
    r"normalize='unit'": "--normalize unit",
    r"\brevealing=('?)([^:]+?)\1:": r"--revealing \2:",
    r"\brevealing is only for presets": "--revealing is only for presets",
    r"\bmin_propensity=": "--min-propensity ",
    r"\bmin_propensity must": "--min-propensity must",
    r"\b(seed|memory|budget|max_features|pending|pending_bytes|pending_age|features|rounds|repeats) must": r"--\1 must",
    r"\bdurability='(\w*)'": r"--durability \1",
    r"\bmax_norm \(--max-norm\)": "--max-norm",
    r"give rounds=": "give --rounds",
    r"make it with Encoder\(names=True\)": "make it with --names (of teach, run or serve)",
    r"use draw\(\) or --plot": "use --plot",
    r"use to_frame\(\) or --json": "use --json",
    r"(give|use) a file that save\(\) wrote": r"\1 a file that `gappletron run --save` or `teach` wrote",
    r"name one that Online\.open made": "name one that `gappletron serve` or Online.open made",
    r"name a file that Online\.open made": "name a file that `gappletron serve` or Online.open made",
}


def translate(sentence: str) -> str:
    """Return a sentence of the library as the command line says it.

    >>> translate("min_propensity=0.6 is too much for the graph 'bandit'")
    "--min-propensity 0.6 is too much for the graph 'bandit'"
    >>> translate("<stdin> has no name that tells its format: add it, as in --format csv (format='csv')")
    '<stdin> has no name that tells its format: add it, as in --format csv'
    >>> translate("pending_age must be above 0, not -1")
    '--pending-age must be above 0, not -1'
    """
    for python, option in WORDS.items():
        sentence = re.sub(python, option, sentence)
    return re.sub(r"--[a-z]+(?:_[a-z]+)+", lambda found: found[0].replace("_", "-"), sentence)
