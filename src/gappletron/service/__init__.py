"""The service: models over HTTP, with a page that shows how they do (extra ``gappletron[serve]``).

``gappletron serve`` is the way to start it. :func:`~gappletron.service.app.create_app` makes the ASGI application for
servers of your own. Nothing else in the package imports this one.
"""
