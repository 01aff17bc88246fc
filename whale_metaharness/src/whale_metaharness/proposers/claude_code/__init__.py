"""The command-line agent ``claude`` as a proposer: in a jail, behind a proxy that holds the key."""
