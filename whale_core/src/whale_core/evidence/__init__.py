"""What runs are asked afterwards: which coordinate limits them, how pairs do across runs, alarms."""
