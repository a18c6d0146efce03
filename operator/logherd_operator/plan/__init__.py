"""From what was seen and what is wanted to what is done next: at most one disruptive action, each with its reason.

`planner.plan` is the only way in. Pure: no clock, no network, no files; the same look gives the same plan, whatever was
done before. A chapter is a generator of steps; the first that acts disruptively or waits ends the plan. Nothing here
knows whether a place is a pod or a process."""
