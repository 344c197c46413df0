"""nbgrader's settings in the hub's image: the exchange is a service, since pods share no disk."""

import os

from ngshare_exchange import configureExchange

c = get_config()  # noqa: F821 -- traitlets puts it here

configureExchange(c)
c.CourseDirectory.course_id = os.environ["COURSE_ID"]
