"""What each of the two processes of a submission does: the student's runs cells and answers, the judge's tests.

They are started by name.
"""
