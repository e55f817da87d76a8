// @npmcli/config has no types; this declares the parts that are used here.
declare module '@npmcli/config' {
  export interface ConfigOptions {
    npmPath: string
    definitions: unknown
    shorthands: unknown
    flatten: unknown
    nerfDarts: unknown
    env: NodeJS.ProcessEnv
    argv: string[]
    cwd: string
    warn: boolean
  }
  export default class Config {
    constructor(options: ConfigOptions)
    load(): Promise<void>
    readonly flat: Record<string, unknown>
  }
}

declare module '@npmcli/config/lib/definitions/index.js' {
  const definitions: {
    definitions: unknown
    shorthands: unknown
    flatten: unknown
    nerfDarts: unknown
  }
  export default definitions
}
