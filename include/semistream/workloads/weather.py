"""`weather`: cloud reports joined on longitude, many-to-many (papers 000, 002 and 004)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.workloads.base import GeneratedWorkload, blocks
from semistream.workloads.draws import Bits, block_generator
from semistream.workloads.permutation import Permutation
from semistream.workloads.ranks import ZipfRanks
from semistream.workloads.text import numbered

LARGEST_LONGITUDE = 36_000  # hundredths of a degree
_STATIONS = 12_000
_SHARE_OF_SHIPS = 0.2
_SHIP = 90_000  # stands for any ship in `station`
_SLOT_US = 3 * 3600 * 1_000_000  # reports are made every three hours
# 1981-04-01, 1981-08-01 and 1981-12-01: paper 002 joins December with April and August.
_APRIL_US, _AUGUST_US, _DECEMBER_US = 354_931_200_000_000, 365_472_000_000_000, 376_012_800_000_000
_SLOTS_PER_MONTH = 30 * 8

# Centre and spread of where stations crowd: Europe, eastern Asia, North America, the rest.
_REGIONS = ((1_500, 1_500), (11_500, 2_000), (26_500, 1_800), (18_000, 12_000))

# Coded fields and how many values each has (Hahn, Warren and London, NDP-026B).
_CODES = {
    "sky_brightness": 2,
    "present_weather": 100,
    "total_cover": 9,
    "lower_amount": 9,
    "base_height": 10,
    "low_type": 12,
    "middle_type": 13,
    "high_type": 10,
    "middle_amount": 9,
    "high_amount": 9,
    "middle_overlap": 10,
    "high_overlap": 10,
    "change_code": 10,
    "solar_altitude": 180,
    "lunar_light": 100,
}


@dataclass(frozen=True, slots=True)
class _Stations:
    longitude: NDArray[np.int32]
    latitude: NDArray[np.int32]

    @classmethod
    def of(cls, seed: int) -> _Stations:
        """Where the land stations are; the same for master and stream. 96 KB."""
        generator = block_generator(seed, "stations")
        centres, spreads = np.array(_REGIONS, dtype=np.float64).T
        region = generator.integers(0, len(_REGIONS), _STATIONS)
        longitude = np.rint(
            centres[region] + spreads[region] * generator.standard_normal(_STATIONS)
        )
        longitude %= LARGEST_LONGITUDE + 1
        latitude = np.clip(np.rint(4_000 + 2_000 * generator.standard_normal(_STATIONS)), -9e3, 9e3)
        return cls(longitude.astype(np.int32), latitude.astype(np.int32))


class WeatherWorkload(GeneratedWorkload):
    """Two tables of cloud reports with the same columns, joined on `lon`.

    `lon` is in 0..36000 (hundredths of a degree). Both sides repeat their keys: four fifths of
    the reports come from 12,000 land stations, crowded in a few regions, the rest from ships
    anywhere. Rows of 128 bytes on both sides. Synthetic: the shape of the archive NDP-026B that
    the papers use (000, 5.1; 002, 4.1), not its data.

    Parameters: `skew` says how unequally often the stations report into the stream (0: equally
    often, as in the archive); the master always has them equally. A stream tuple matches about
    master_rows / 10,000 master tuples, whatever the skew; with a small master many match none.

    Cost: about 3 M rows per second and core; memory: one block.
    """

    name = "weather"
    stream_key = ("lon",)
    master_key = ("lon",)
    master_schema = stream_schema = pa.schema(
        [
            ("report_id", pa.int64()),
            ("observed_at", pa.timestamp("us")),
            ("lat", pa.int32()),
            ("lon", pa.int32()),
            ("station", pa.int32()),
            ("land_or_ocean", pa.int32()),
            *((name, pa.int32()) for name in _CODES),
            ("report", pa.string()),
        ]
    )

    def _master_chunks(self) -> Iterator[pa.RecordBatch]:
        return self._reports("master", self.master_rows, skew=0.0)

    def _stream_chunks(self) -> Iterator[pa.RecordBatch]:
        return self._reports("stream", self.stream_rows, skew=self.skew)

    def _reports(self, side: str, rows: int, skew: float) -> Iterator[pa.RecordBatch]:
        stations = _Stations.of(self.seed)
        ranks = ZipfRanks(_STATIONS, skew)
        busiest_first = Permutation(_STATIONS, seed=self.seed, purpose="busiest stations")
        for block, start, stop in blocks(rows):
            row = np.arange(start, stop, dtype=np.int64)
            uniform = block_generator(self.seed, f"{side} station", block).random(len(row))
            station = busiest_first.apply(ranks.of(uniform) - 1)
            where = block_generator(self.seed, f"{side} place", block).random((len(row), 3)).T
            is_ship = where[0] < _SHARE_OF_SHIPS
            anywhere = (where[1] * (LARGEST_LONGITUDE + 1)).astype(np.int32)
            at_sea = (where[2] * 14_000).astype(np.int32) - np.int32(7_000)
            longitude = np.where(is_ship, anywhere, stations.longitude[station])
            codes = self._codes(side, len(row), block)
            columns = [
                row,
                self._instants(side, row, rows, block),
                np.where(is_ship, at_sea, stations.latitude[station]),
                longitude,
                np.where(is_ship, _SHIP, station + 1).astype(np.int32),
                np.where(is_ship, np.int32(2), np.int32(1)),
                *(codes[name].astype(np.int32) for name in _CODES),
                _report_text(longitude, codes),
            ]
            yield pa.record_batch(columns, schema=self.stream_schema)

    def _instants(self, side: str, row: NDArray[np.int64], rows: int, block: int) -> pa.Array:
        if side == "stream":
            instants = _DECEMBER_US + row * _SLOTS_PER_MONTH // rows * _SLOT_US
        else:
            generator = block_generator(self.seed, "master slot", block)
            slots = generator.integers(0, 2 * _SLOTS_PER_MONTH, len(row))
            month = np.where(slots < _SLOTS_PER_MONTH, _APRIL_US, _AUGUST_US)
            instants = month + slots % _SLOTS_PER_MONTH * _SLOT_US
        return pa.array(instants).cast(pa.timestamp("us"))

    def _codes(self, side: str, count: int, block: int) -> dict[str, NDArray[np.int64]]:
        generator = block_generator(self.seed, f"{side} codes", block)
        # Row by row, so that a shorter block draws a prefix. Four codes of 15 bits share a word.
        words = generator.integers(0, 1 << 64, (count, 4), dtype=np.uint64)
        bits = [Bits(word) for word in words.T]
        return {
            name: bits[i // 4].below(values, 15) for i, (name, values) in enumerate(_CODES.items())
        }


def _report_text(longitude: NDArray[np.int32], codes: dict[str, NDArray[np.int64]]) -> pa.Array:
    """The report as it was telegraphed: place and cloud codes in digits, 32 characters."""
    digits = longitude.astype(np.int64)
    for name in ("total_cover", "lower_amount", "base_height", "low_type", "middle_type"):
        digits = digits * 100 + codes[name]
    return numbered("SYNOP 1981 CLOUD", digits, digits=16)
