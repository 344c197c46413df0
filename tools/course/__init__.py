"""Build the course: masters, chapters, releases, the kit and the site."""
