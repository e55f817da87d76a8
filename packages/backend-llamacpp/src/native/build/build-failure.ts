import { CllmError } from '@cllm/core'

const installs: Readonly<Record<string, string>> = {
  darwin: '`xcode-select --install` and `brew install cmake`',
  win32: 'install Git, and the Build Tools for Visual Studio with C++ and CMake',
}

const linuxInstall =
  '`apt-get install git cmake make g++` on Debian and Ubuntu, ' +
  '`dnf install git cmake make gcc-c++` on Fedora'

/** Why the library cannot be built here. */
export function buildFailure(message: string, cause?: unknown): CllmError {
  return new CllmError('native_build_failed', message, { cause })
}

/** The same, for a program that is missing. */
export function toolMissing(what: string, platform: string, cause?: unknown): CllmError {
  const install = installs[platform] ?? linuxInstall
  return buildFailure(`building llama.cpp needs ${what}: ${install}`, cause)
}

/** The lines of a failed program that say why: those with an error, or else the last ones. */
export function reasonIn(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.findIndex((line) => /\berror\b/i.test(line))
  return (errors === -1 ? lines.slice(-8) : lines.slice(errors, errors + 8)).join('\n')
}
