"""Where a picture is seen: a widget, a cell magic, an offline page, a notebook's HTML, a script."""
