// @npmcli/config has no types; this declares the parts that are used here.
declare module '@npmcli/config' {
  export interface Definitions {
    definitions: unknown
    shorthands: unknown
    flatten: unknown
    nerfDarts: unknown
  }

  export default class Config {
    constructor(
      options: Definitions & {
        npmPath: string
        env: NodeJS.ProcessEnv
        argv: string[]
        cwd: string
        warn: boolean
      },
    )
    load(): Promise<void>
    readonly flat: Record<string, unknown>
  }
}

declare module '@npmcli/config/lib/definitions/index.js' {
  import type { Definitions } from '@npmcli/config'
  const definitions: Definitions
  export default definitions
}
