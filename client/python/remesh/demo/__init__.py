# SPDX-License-Identifier: Apache-2.0
"""The demo: Llama-3.2-1B's parameters move between three layouts over processes of this machine.
See __main__.py."""
