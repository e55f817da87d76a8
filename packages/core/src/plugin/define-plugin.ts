import type { Plugin } from '../contracts/plugin.js'

/** Names a plugin's parts for the compiler and returns it as it is. */
export function definePlugin<Options>(plugin: Plugin<Options>): Plugin<Options> {
  return plugin
}
