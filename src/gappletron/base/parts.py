"""Properties that are attributes of a part of an object."""

from operator import attrgetter
from typing import Any


def part(path: str, doc: str) -> Any:
    """Return a property that reads an attribute of a part, to be annotated with its type.

    >>> class Line:
    ...     def __init__(self, text):
    ...         self.text = text
    ...     kind: type = part("text.__class__", "The class of the text.")
    >>> Line("abc").kind
    <class 'str'>
    """
    return property(attrgetter(path), doc=doc)
