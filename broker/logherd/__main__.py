"""`python -m logherd`: the same as the `logherd` command."""

from logherd.cli.entry import main

if __name__ == "__main__":
    main()
