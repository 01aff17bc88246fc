"""The rollout engine `vllm`: rollouts on vLLM servers, which take new weights while they run."""
