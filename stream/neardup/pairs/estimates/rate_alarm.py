"""An alarm for trials that miss more often than they should, which may be read after every trial.

Each trial has a known chance to miss. The alarm bets against these chances: for each of some excesses, the bet of a
trial pays by how much more probable its outcome is if that fraction of what should be found is lost. While the chances
hold, the capital of a bet is a martingale, so it ever exceeds 1 / level with a probability of at most ``level``
(Ville's inequality). A fault may begin late, when the bets on a healthy stream have lost what they had. So a little of
the capital is kept for each later trial: the mixture over beginnings is a martingale, too.

Source: Ville, "Etude critique de la notion de collectif", 1939; Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform,
nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49, 2021.
"""

from __future__ import annotations

import numpy as np

# Fractions that may be lost of what should be found.
_EXCESSES = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75])
# The least chance to miss that counts: computed curves are no better.
_CHANCE_MIN = 1e-4
LEVEL = 1e-6


class RateAlarm:
    """The capital of the bets; ``level`` is the probability of an alarm while the chances hold, however many trials
    there are.

    >>> alarm = RateAlarm()
    >>> for n in range(300):
    ...     alarm.add(is_missed=n % 4 == 0, chance=0.05)
    >>> alarm.rings
    True
    """

    def __init__(self, level: float = LEVEL) -> None:
        self._level = level
        self._bets = np.zeros(len(_EXCESSES))
        self.trials = 0
        self.rings = False

    def add(self, *, is_missed: bool, chance: float) -> None:
        """Count a trial, which misses with a probability of ``chance`` at most."""
        self.trials += 1
        miss = max(chance, _CHANCE_MIN)
        # The part of the capital that begins to bet now: 1 / (n (n + 1)) sums up to 1.
        begins = 1 / (self.trials * (self.trials + 1)) / len(_EXCESSES)
        pays = 1 + _EXCESSES * (1 - miss) / miss if is_missed else 1 - _EXCESSES
        self._bets = (self._bets + begins) * pays
        self.rings |= self.capital >= 1 / self._level

    @property
    def capital(self) -> float:
        """What the bets have made of a capital of 1."""
        return float(self._bets.sum() + 1 / (self.trials + 1))
