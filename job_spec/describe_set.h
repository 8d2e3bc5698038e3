// An activation set's manifest as the service's message.
#ifndef LORSA_JOB_SPEC_DESCRIBE_SET_H_
#define LORSA_JOB_SPEC_DESCRIBE_SET_H_

#include "absl/strings/string_view.h"
#include "activation_store/manifest.h"
#include "activation_store/outlier_targets.h"
#include "lorsa/v1/activation_service.pb.h"

namespace lorsa {

v1::Rope DescribeRope(const store::Rope& rope);

v1::OutlierTargets DescribeOutliers(const store::OutlierTargets& outliers);

// All that the manifest says; path, manifest_sha256 and register_time are the caller's. The name is
// activationSets/`id`.
v1::ActivationSet DescribeSet(const store::Manifest& manifest, absl::string_view id);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_DESCRIBE_SET_H_
