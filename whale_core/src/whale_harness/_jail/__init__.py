"""What runs in the jail besides harness code: zygote, episode process, confinement.

Standard library only, and part of the SDK's folder because that is all that is mounted there.
"""
