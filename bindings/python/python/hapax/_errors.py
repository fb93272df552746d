"""The exceptions, and the ends of awaited calls."""

from datetime import timedelta


class HapaxError(Exception):
    """An error of hapax, and the base of all of them."""


class OptionError(HapaxError, ValueError):
    """An option has a value that it cannot have. The text says which one, what it got and what it expected."""


class JournalError(HapaxError):
    """A journal or a long memory cannot be opened, read or written."""


class LostLease(HapaxError):
    """The lease had expired, and the id was taken over: the effects of the work may happen twice."""


class StoreError(HapaxError):
    """The store could not be asked, or cannot do it. ``kind`` is "unavailable", "no answer in time", "conflict",
    "corrupt" or "misconfigured"."""

    def __init__(self, text, kind):
        super().__init__(text)
        self.kind = kind

    def __reduce__(self):
        return type(self), (str(self), self.kind)


class NotClaimed(HapaxError):
    """Entering a claim that is another caller's, or none. Its classes say why."""


class Duplicate(NotClaimed):
    """The id is done: acknowledge the message. ``result`` is what a store has kept, if it was asked for."""

    def __init__(self, verdict=None, result=None):
        super().__init__("the id is done already")
        self.verdict, self.result = verdict, result


class InProgress(NotClaimed):
    """Another caller is at work on it: let the message come again, in ``lease_left`` at the latest."""

    def __init__(self, lease_left=timedelta(0)):
        super().__init__(f"the id is in progress, for at most {lease_left}")
        self.lease_left = lease_left


class Mismatch(NotClaimed):
    """The id is in progress or done, with another fingerprint: it was used for another message."""

    def __init__(self):
        super().__init__("the id was used for another message: the fingerprints differ")


class TooMany(NotClaimed):
    """Too many ids are in flight in this process."""

    def __init__(self):
        super().__init__("too many ids are in flight in this process")


def _settle(future, value, is_error):
    if not future.done():  # it was not cancelled
        (future.set_exception if is_error else future.set_result)(value)
