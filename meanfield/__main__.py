"""`python -m meanfield`: the command `meanfield`."""

from meanfield.cli import main

if __name__ == "__main__":
    main()
