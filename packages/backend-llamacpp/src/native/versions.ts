/** The version of node-llama-cpp whose internals this package was written for. */
export const nodeLlamaCppVersion = '3.22.1'

/** What `llama_version()` says in the libraries that node-llama-cpp 3.22.1 ships. */
export const llamaVersion = '0.5.0-dev'
