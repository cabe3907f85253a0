"""``ruslo completion``: print a shell completion script."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples

VARIABLE = "_RUSLO_COMPLETE"
_WHOLE_ADDRESSES = """
# bash splits words at colons: 127.0.0.1:9092 would be three words.
_ruslo_whole_words() {
    local -a words=()
    local at
    for ((at = 0; at <= COMP_CWORD; at++)); do
        if ((at > 1)) && [[ ${COMP_WORDS[at]} == :* || ${COMP_WORDS[at - 1]} == *: ]]; then
            words[-1]+=${COMP_WORDS[at]}
        else
            words+=("${COMP_WORDS[at]}")
        fi
    done
    local -a COMP_WORDS=("${words[@]}")
    local COMP_CWORD=$((${#words[@]} - 1))
    _ruslo_completion "$@"
}
complete -o nosort -F _ruslo_whole_words ruslo
"""


@click.command(
    short_help="Print a shell completion script.",
    epilog=examples(
        "ruslo completion bash > ~/.local/share/bash-completion/completions/ruslo",
        'ruslo completion zsh > "${fpath[1]}/_ruslo"',
        "ruslo completion fish > ~/.config/fish/completions/ruslo.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL, for commands, options, and names of topics and groups.

    Names are requested from the cluster that the command would use, within one second.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    # Not source(), which runs bash to check its version: the script may be for another machine.
    click.echo(
        kind.source_template
        % kind(click.get_current_context().find_root().command, {}, "ruslo", VARIABLE).source_vars()
    )
    if shell == "bash":
        click.echo(_WHOLE_ADDRESSES)
