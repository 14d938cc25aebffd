"""The paper's analyses: policy against model (Section 4), failures (Appendix D)."""
