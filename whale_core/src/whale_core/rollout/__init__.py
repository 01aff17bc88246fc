"""Rollouts: one executor for training, scoring, selection and test."""
