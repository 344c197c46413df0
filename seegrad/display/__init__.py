"""Where a picture is seen: a widget, a cell magic, an offline page, a notebook as HTML, a script."""
