import type { TestContext } from '@cllm/testing'

/** Runs a suite without a test framework and keeps what failed, to see that suites can fail. */
export class RecordingContext implements TestContext {
  passed = 0
  readonly failures: string[] = []

  /** @param defect - once the suite has said this, the rest of it is not run */
  constructor(private readonly defect?: RegExp) {}

  async test(name: string, body: (t: TestContext) => Promise<void>): Promise<void> {
    if (this.defect?.test(this.failures.join('\n'))) return
    try {
      await body(this)
    } catch (error) {
      this.failures.push(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  pass(): void {
    this.passed++
  }
}

/** Ends a suite at its first failure. */
export class FirstFailureContext implements TestContext {
  failure = 'no failure'

  async test(name: string, body: (t: TestContext) => Promise<void>): Promise<void> {
    try {
      await body(this)
    } catch (error) {
      if (this.failure === 'no failure') {
        this.failure = `${name}: ${error instanceof Error ? error.message : String(error)}`
      }
      throw error
    }
  }

  pass(): void {}
}
