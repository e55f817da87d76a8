/** Declares stylesheets, which Vite resolves, for the compiler. */
declare module '*.css'

/** The batchings and orders of the built-in policies, which Vite's configuration takes from `@cllm/scheduler`. */
declare module 'virtual:policies' {
  /** An option, as a part of a JSON schema. */
  export interface OptionField {
    readonly description?: string
    readonly default?: unknown
    readonly type?: string
    readonly minimum?: number
    readonly maximum?: number
  }

  /** A batching or an order. */
  export interface PolicyHalf {
    readonly name: string
    readonly doc: string
    readonly fields: Readonly<Record<string, OptionField>>
  }

  const policies: {
    readonly batchings: readonly PolicyHalf[]
    readonly orders: readonly PolicyHalf[]
  }
  export default policies
}
