"""What runs are asked afterwards: which coordinate limits them, what carries over, alarms."""
