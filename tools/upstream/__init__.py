"""torch's own tests, each run plain and recorded in turn: what recording changes.

`compare` is pure; `worker` runs tests in a process of its own and tells what `sight` sees; `crew` starts workers, and
goes on after one that crashed or hung; `page` puts counts into docs/transparency.md.
"""
