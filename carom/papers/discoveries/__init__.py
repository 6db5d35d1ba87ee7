"""Questions that the papers leave open, answered by measuring: a chapter each in `docs/discoveries/`, by one command each."""

from carom.papers.discoveries import bar_waves, collision_order, energy_walk, rolling_volume, split_events
from carom.papers.exhibit import Exhibit

DISCOVERIES: tuple[Exhibit, ...] = (
    Exhibit("fetecau2003", "energy-walk", "Is a nearby energy conserved?", energy_walk.energy_walk),
    Exhibit("fetecau2003", "collision-order", "Does the order survive the impact?", collision_order.collision_order),
    Exhibit("demoures2017", "bar-waves", "Which integrator converges to the exact waves?", bar_waves.bar_waves),
    Exhibit("schindler2014", "split-events", "Does the order survive if events are split?", split_events.split_events),
    Exhibit("rodriguez2025", "rolling-volume", "Is there an invariant volume?", rolling_volume.rolling_volume),
)
