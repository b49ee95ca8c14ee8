"""The figures of the report: :mod:`~gappletron.paper.figures.catalogue` lists them, the other modules draw them."""
