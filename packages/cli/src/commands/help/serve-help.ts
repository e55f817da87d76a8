import { configHelp } from './config-help.js'

/** The output of `cllm serve --help`. */
export const help = (): string => `Usage: cllm serve [flags]

Serves a model over HTTP. Downloads it if necessary, loads it and warms it up, then prints
\`listening on http://HOST:PORT\`. Until then, requests get 503.
SIGINT and SIGTERM let running requests finish; a second signal ends the server at once.

${configHelp()}`
