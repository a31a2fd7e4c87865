"""Studies: a policy drives real agents by ask and tell.

The state of a study is its log of answers. `ask` runs the policy from the start with the study's
seed. Every pull that the log answers is answered from it; the first one that it does not answer
ends the run and becomes the next order.
"""

from clustered_bandit_gym.study.order import Order
from clustered_bandit_gym.study.plan import Plan, plan
from clustered_bandit_gym.study.report import report
from clustered_bandit_gym.study.study import Status, Study, drive

__all__ = ["Order", "Plan", "Status", "Study", "drive", "plan", "report"]
