"""A tree whose branches end in one object that all share."""


class Node:
    def __init__(self, key, left=None, right=None):
        self.key, self.left, self.right = key, left or NIL, right or NIL

    def height(self):
        return 0 if self is NIL else 1 + max(self.left.height(), self.right.height())


NIL = Node.__new__(Node)
NIL.key, NIL.left, NIL.right = None, NIL, NIL
