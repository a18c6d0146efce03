"""The operator as a process: kopf watches and wakes, one reconcile per group at a time looks, plans, acts and reports.

All that it remembers can be lost: what is so is in the API's objects and with the controllers. It never decides by
itself, it never runs anything in a pod, and it leaves no finalizer and no mark of a framework on anything.
"""
