"""A connection that can be left unread, for tests."""


class Restful:
    def __init__(self, running: int = 0) -> None:
        self.resting = False
        self.running = running

    def rest(self) -> bool:
        new, self.resting = not self.resting, True
        return new

    def wake(self) -> None:
        self.resting = False
