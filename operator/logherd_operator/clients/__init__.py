"""Whom the operator speaks to: the API server, and the admin ports of controllers and brokers.

Each call has a deadline and says plainly whether it was refused or nobody answered. Nothing here decides anything, and
it knows no planner and no kopf.
"""
