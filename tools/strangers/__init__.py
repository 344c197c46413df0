"""Other people's nbgrader courses through both graders, stock nbgrader's and ours, question by question."""
