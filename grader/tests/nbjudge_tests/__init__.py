"""What nbjudge's tests share, with the course's tests too: classes to grade, judges that count, servers."""
