import type { Backend, EngineClient, PluginRegistry } from '@cllm/core'

/** A model and how it is loaded. */
export interface ModelSettings {
  /** A path or a name, as `cllm serve --model` takes it. */
  readonly model: string
  readonly slots: number
  /** Tokens per slot. */
  readonly contextSize: number | undefined
  /** Tokens that all slots hold together; default: the backend's. */
  readonly kvTokens?: number
  readonly batchSize: number
  readonly gpu: 'auto' | 'off' | 'metal' | 'cuda' | 'vulkan'
  readonly threads: number | undefined
  readonly policy: string
  readonly policyOptions?: Readonly<Record<string, unknown>>
  /**
   * Whether its server has what `cllm serve` has by default beside these settings, such as speculation, saved states and
   * limits of the queue. Default: false, so that as little as possible is in what is measured.
   */
  readonly asServed?: boolean
  /** Whether it speculates, as `cllm serve` does by default; default: as `asServed` is. */
  readonly speculates?: boolean
}

/** A model that is served over HTTP. */
export interface ServedModel {
  readonly url: URL
  readonly client: EngineClient
  /** Ends the server and its engine. */
  readonly close: () => Promise<void>
}

/** Loads models for the commands that measure them from within. */
export interface ModelHost {
  /** A backend in this process. */
  openBackend(settings: ModelSettings): Promise<Backend>
  /** A server over HTTP with its engine in a separate process. */
  serve(settings: ModelSettings): Promise<ServedModel>
  /** A policy for an engine in this process. */
  readonly policies: PolicyFactory
}

/** Makes policies, routers and model schedulers by name, including those of plug-ins. */
export type PolicyFactory = Pick<
  PluginRegistry,
  'batchings' | 'orders' | 'createPolicy' | 'routers' | 'modelSchedulers'
>
