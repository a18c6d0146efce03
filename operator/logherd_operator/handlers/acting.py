"""Carrying out a plan's actions: each as the calls that it stands for, each with what it expects to find."""

from logherd_operator.clients.admin import Admins
from logherd_operator.clients.api import Api, Reply
from logherd_operator.clients.errors import Conflict, FailedAt, NotFound, NotNow, Refused
from logherd_operator.cluster.calls import At, Call, calls_of, refused_settings
from logherd_operator.handlers.looking import Sight
from logherd_operator.handlers.memory import Memory
from logherd_operator.plan import actions as plan
from logherd_operator.spec.errors import OperatorError

__all__ = ["Hands", "NotDone"]

_NO_SUCH_PAGE = (404, 405)


class NotDone(OperatorError):
    """An action was refused, or nobody knows whether it was done; the next look decides anew."""


class Hands:
    """Acts. Never on its own account, and never twice at once for a group."""

    def __init__(self, api: Api, admins: Admins) -> None:
        self._api = api
        self._admins = admins

    async def carry_out(self, action: plan.Action, sight: Sight, memory: Memory) -> None:
        """Do it. Raises: NotDone, or Unreachable if the API server did not answer."""
        for call in calls_of(action, At(sight.site, sight.versions)):
            if call.target == "cluster":
                await self._change_cluster(call)
            elif call.target == "controllers":
                await self._tell_controllers(call, sight, memory)
            else:
                await self._tell_broker(call, sight, memory)
        _remember(action, sight, memory)

    async def _change_cluster(self, call: Call) -> None:
        query = "?fieldManager=logherd-operator" if call.method == "PATCH" else ""
        try:
            await self._api.call(call.method, f"{call.path}{query}", call.body, call.content_type)
        except NotFound as error:
            if call.method == "PATCH":
                raise NotDone(str(error)) from error
        except (Conflict, NotNow) as error:
            raise NotDone(str(error)) from error
        except Refused as error:
            raise NotDone(f"the API server refuses it: {error}") from error
        except FailedAt as error:
            # It may last, as an eviction's does where two disruption budgets cover the pod; somebody has to hear of it.
            raise NotDone(str(error)) from error

    async def _tell_controllers(self, call: Call, sight: Sight, memory: Memory) -> None:
        hosts = sight.site.controller_hosts()
        reply = await self._admins.tell(hosts[memory.leading % len(hosts)], call.path, call.body, memory.token)
        if reply is None:
            raise NotDone("the controllers did not answer; whether it was done is unknown")
        _forget_token(reply, memory)
        if reply.status >= 300:
            raise NotDone(f"the controllers refuse it: {_said(reply)}")

    async def _tell_broker(self, call: Call, sight: Sight, memory: Memory) -> None:
        ordinal = int(call.target)
        reply = await self._admins.tell(sight.site.inner_host("broker", ordinal), call.path, call.body, memory.token)
        if reply is None:
            raise NotDone(f"broker {ordinal + 1} did not answer")
        _forget_token(reply, memory)
        if reply.status < 300:
            return
        slot = sight.observed.broker(ordinal + 1)
        if slot is not None and slot.instance is not None and (reply.status in (*_NO_SUCH_PAGE, 400)):
            refused = refused_settings(call.body.get("values", {}), reply.document)
            memory.refused[slot.instance.uid] = (*memory.refused.get(slot.instance.uid, ()), *refused)
        raise NotDone(f"broker {ordinal + 1} refuses it: {_said(reply)}")


def _forget_token(reply: Reply, memory: Memory) -> None:
    """Somebody made the Secret anew: it is read again in the next look."""
    if reply.status in (401, 403):
        memory.token = ""


def _said(reply: Reply) -> str:
    reason, sentence = reply.document.get("reason"), reply.document.get("error")
    return f"{reason}: {sentence}" if reason else str(sentence or reply.status)


def _remember(action: plan.Action, sight: Sight, memory: Memory) -> None:
    """Which pod was told to stop: until the watch shows it, it is read anew."""
    if isinstance(action, plan.Restart):
        memory.taken[sight.site.pod(action.component, action.ordinal)] = action.uid
    elif isinstance(action, plan.RemoveMember | plan.Rebuild) and action.uid:
        memory.taken[sight.site.pod("broker", action.ordinal)] = action.uid
