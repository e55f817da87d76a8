/** A policy that can be set. */
export interface PolicyInfo {
  readonly name: string
  /** Its options with their defaults; left out where the policy cannot be made without options. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** Why another policy than the one that was chosen is in force. */
export interface FallbackInfo {
  /** The policy that failed. */
  readonly from: string
  readonly reason: string
  /** Milliseconds of the engine's clock. */
  readonly since: number
}

/** A policy as it is set. */
export interface PolicySetting {
  readonly policy: string
  readonly options: Readonly<Record<string, unknown>>
}

/** The policy in force. */
export interface SchedulerInfo extends PolicySetting {
  /** Every policy that can be set. */
  readonly available: readonly PolicyInfo[]
  /** Set while the fallback is in force, until another policy is set. */
  readonly fallback?: FallbackInfo
}
