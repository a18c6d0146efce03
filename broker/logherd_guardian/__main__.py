"""`python -m logherd_guardian`: the same as the `logherd-guardian` command."""

from logherd_guardian.entry import main

if __name__ == "__main__":
    main()
