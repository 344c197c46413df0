"""The values of packages that a course may have, and that may be missing: pandas', Pillow's and SymPy's."""
