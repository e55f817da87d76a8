import { configHelp } from './config-help.js'

/** What `cllm serve --help` prints. */
export const help = (): string => `Usage: cllm serve [flags]

Serves a model over HTTP. The model is fetched where it is not here yet, loaded and warmed up; then
\`listening on http://HOST:PORT\` is printed. SIGINT and SIGTERM let what is under way finish.

${configHelp()}`
