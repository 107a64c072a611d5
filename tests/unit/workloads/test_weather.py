from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.unit.workloads.conftest import Make, master_of, stream_of


def longitudes(table) -> np.ndarray:
    return table["lon"].to_numpy()


def test_longitudes_fill_their_domain_on_both_sides(make: Make):
    workload = make("weather", master_rows=400_000, stream_rows=400_000)
    for table in (master_of(workload), stream_of(workload)):
        lon = longitudes(table)
        assert lon.min() == 0
        assert lon.max() == 36_000
        assert len(np.unique(lon)) > 20_000


def test_keys_repeat_on_both_sides(make: Make):
    workload = make("weather", master_rows=50_000, stream_rows=50_000)
    master, stream = (
        np.bincount(longitudes(t)) for t in (master_of(workload), stream_of(workload))
    )
    size = min(len(master), len(stream))
    many_to_many = (master[:size] > 1) & (stream[:size] > 1)
    assert many_to_many.sum() > 1_000


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.2])
def test_the_fan_out_hardly_depends_on_the_skew(make: Make, skew: float):
    workload = make("weather", master_rows=200_000, stream_rows=50_000, skew=skew)
    per_longitude = np.bincount(longitudes(master_of(workload)), minlength=36_001)
    fan_out = per_longitude[longitudes(stream_of(workload))].mean()
    assert 10 < fan_out < 40  # 200,000 / 10,000


def test_skew_makes_stations_report_unequally(make: Make):
    def share_of_busiest(skew: float) -> float:
        station = stream_of(make("weather", stream_rows=50_000, skew=skew))["station"].to_numpy()
        return float(np.bincount(station[station < 90_000]).max() / len(station))

    assert share_of_busiest(0.0) < 0.001
    # Rank 1 of 12,000 stations, which send four fifths of the reports.
    expected = 0.8 / (1 / np.arange(1, 12_001)).sum()
    assert share_of_busiest(1.0) == pytest.approx(expected, rel=0.1)


def test_a_station_stays_where_it_is_on_both_sides(make: Make):
    workload = make("weather", master_rows=30_000, stream_rows=30_000)
    places: dict[int, set] = {}
    for table in (master_of(workload), stream_of(workload)):
        land = table.filter(pc.equal(table["land_or_ocean"], 1)).select(["station", "lon", "lat"])
        for station, lon, lat in zip(*(c.to_pylist() for c in land.columns), strict=True):
            places.setdefault(station, set()).add((lon, lat))
    assert len(places) > 8_000
    assert all(len(place) == 1 for place in places.values())


def test_a_fifth_of_the_reports_is_from_ships(make: Make):
    kinds = stream_of(make("weather", stream_rows=50_000))["land_or_ocean"].to_numpy()
    assert (kinds == 2).mean() == pytest.approx(0.2, abs=0.01)


def test_rows_have_the_size_of_the_archive(make: Make):
    workload = make("weather", master_rows=10_000, stream_rows=10_000)
    for table in (master_of(workload), stream_of(workload)):
        assert table.nbytes / 10_000 == pytest.approx(128, abs=0.1)


def test_the_stream_is_december_in_order_and_the_master_april_and_august(make: Make):
    workload = make("weather", stream_rows=5_000)
    observed = stream_of(workload)["observed_at"]
    assert np.all(np.diff(observed.to_numpy().astype(np.int64)) >= 0)
    assert set(pc.month(observed).to_pylist()) == {12}
    assert set(pc.month(master_of(workload)["observed_at"]).to_pylist()) == {4, 8}


def test_codes_cover_their_ranges(make: Make):
    master = master_of(make("weather", master_rows=20_000))
    for name, values in (("total_cover", 9), ("middle_type", 13), ("present_weather", 100)):
        assert set(master[name].to_pylist()) == set(range(values))
    assert len(set(master["report"].to_pylist())) > 19_000
