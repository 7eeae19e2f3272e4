# SPDX-License-Identifier: Apache-2.0
"""Grafana's boards as values (panel.py, queries.py), and as the JSON that Grafana reads
(panel_json.py, board_json.py)."""
