"""Other groups that use the controllers beside us (`controllers.ref`): each has a slice of its own, and a thread here.

Which there are the controller says. A group that is not a BrokerGroup of this namespace has no slice, and one whose
slice is not ours to read is asked for now and then, in vain.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import quote

from logherd_operator.keeper.keeping import Keeping, keep_leader
from logherd_operator.keeper.slices import ask_controller

__all__ = ["Others", "Shared", "groups_in", "page_of"]

_log = logging.getLogger("logherd.leader-endpoint")
_APART = 5.0
"""Seconds between two looks for other groups."""
_MANY = 64
"""So many other groups are kept at most: each is a thread in a small container."""


class Shared(NamedTuple):
    """A group that the controllers know."""

    cluster: str
    name: str


def page_of(controller: str, group: Shared) -> str:
    """The URL of the group at the controller."""
    return f"{controller}/groups/{quote(group.cluster, safe='')}/{quote(group.name, safe='')}"


def groups_in(status: int, document: Mapping[str, Any], own: str) -> frozenset[Shared] | None:
    """From the controller's list; None if it does not answer.

    Whose name is ours, and those that share one, are left out: nobody could say whose the slice of that name is.
    """
    try:
        if status != 200:
            return None
        found = [Shared(str(each["cluster"]), str(each["name"])) for each in document["groups"]]
    except (KeyError, TypeError):
        return None
    count = Counter(each.name for each in found)
    return frozenset(sorted(each for each in found if each.name != own and count[each.name] == 1)[:_MANY])


class Others:
    """Keeps a thread for each of them. `keeping_of` says how a group is kept."""

    def __init__(
        self,
        controller: str,
        own: str,
        keeping_of: Callable[[Shared], Keeping],
        keep: Callable[[Keeping, Callable[[], bool]], None] = keep_leader,
    ) -> None:
        self._url = f"{controller}/groups?stale=true"
        self._own = own
        self._keeping_of = keeping_of
        self._keep = keep
        self._listed: frozenset[Shared] = frozenset()
        self._threads: dict[Shared, Thread] = {}

    def run(self) -> None:
        """For ever."""
        while True:
            self.look()
            time.sleep(_APART)

    def look(self) -> None:
        """Once: who is new is kept from now on, who is gone no longer."""
        found = groups_in(*ask_controller(self._url, _APART), self._own)
        if found is None:
            return
        self._listed = found
        self._threads = {group: thread for group, thread in self._threads.items() if thread.is_alive()}
        for group in sorted(found - self._threads.keys()):
            _log.info("the group %s of the cluster %s uses these controllers", group.name, group.cluster)
            thread = Thread(target=self._keep, args=(self._keeping_of(group), self._goes_on(group)), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # as without memory for one; the next look tries again
                _log.warning("it cannot be kept yet: %s", error)
                return
            self._threads[group] = thread

    def _goes_on(self, group: Shared) -> Callable[[], bool]:
        return lambda: group in self._listed
