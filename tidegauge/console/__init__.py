"""The console: pages over the store's `v_*` views.

In: a store's URL, and directories in which runs keep their data docs. Out: an ASGI application (`app.create_app`). The
rules that must hold: it reads views only, and writes nothing but acknowledgements; whatever the snapshots contain
(names above all) is text and never markup; pages load nothing from elsewhere and run no inline script; a page's cost
does not grow with the store.
"""
